"""Tables, numbers and paragraphs of the demo model's card."""
import re
import textwrap

NONE, WIDTH = "Not measured.", 120


def table(head, rows):
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in [head, ["---"] * len(head), *rows])


def short(value, digits=2):
    return "–" if value is None else re.sub(r"^(-?)0\.", r"\1.", f"{value:.{digits}f}")


def wrapped(text):
    """Paragraphs and lists at the width of a page; tables, headings and code as they are."""
    out, is_code = [], False
    for line in text.split("\n"):
        is_code ^= line.startswith("```")
        indent = "  " if line.startswith("- ") else ""
        as_it_is = is_code or line[:1] in ("|", "#", "") or line.startswith("```")
        out += [line] if as_it_is else textwrap.wrap(line, WIDTH, subsequent_indent=indent, break_long_words=False,
                                                     break_on_hyphens=False)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).rstrip()
