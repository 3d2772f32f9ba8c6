"""Links of the documents lead to what exists, and to what their text names."""

import pytest

from tools.check_docs import ROOT, broken_links

PAGE = ROOT / "docs" / "design.md"


@pytest.mark.parametrize(
    ("link", "found"),
    [
        ("[upgrading.md](upgrading.md)", None),
        ("[the versions](upgrading.md)", None),
        ("[README.md](../README.md)", None),
        ("[deployment.md](upgrading.md)", "the text names deployment.md, the link leads to"),
        ("[`console.md`](flows.md#what-is-late-and-why)", "the text names console.md"),
        ("[a page](of-nobody.md)", "of-nobody.md does not exist"),
        ("[a heading](flows.md#of-nobody)", "flows.md has no heading #of-nobody"),
    ],
)
def test_a_link_leads_to_the_page_that_it_names(link: str, found: str | None) -> None:
    lines = list(broken_links(PAGE, f"A line.\n\nSee {link}.\n"))
    assert len(lines) == (found is not None)
    assert all(line.startswith("docs/design.md:3: ") and (found or "") in line for line in lines)
