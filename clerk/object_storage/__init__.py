"""Files in a bucket: S3, or a service compatible with it, Google Cloud Storage or Azure. Needs `clerk[cloud]`."""
