from __future__ import annotations

from clerk.web.table_labels import label_cells


def test_each_cell_has_the_title_of_its_column() -> None:
    table = (
        '<table><thead><tr><th scope="col"><a href="/">Site ▲</a></th>'
        '<th scope="col" data-label="Progress">a · b</th></tr></thead>'
        '<tbody><tr><th scope="row">town</th><td class="wrap">1 &lt; 2</td></tr>'
        '<tr><td colspan="2">all</td></tr></tbody></table>'
    )
    labelled = label_cells(f"<p>before</p>{table}")
    assert '<th data-label="Site" scope="row">town</th><td data-label="Progress" class="wrap">1 &lt; 2</td>' in labelled
    assert '<td colspan="2">all</td>' in labelled
    assert '<th scope="col"><a href="/">Site ▲</a></th>' in labelled, "headings stay as they are"
