"""page_table.py - a table on a page between two marks, for the scripts that make one from the sources: `--write` puts it there,
no argument prints it."""
import sys


class Page:
    def __init__(self, path, begin, end, table):
        self.path, self.begin, self.end, self.table = path, begin, end, table

    def parts(self):
        """What is before the table, the table, what is after it."""
        with open(self.path, encoding="utf-8") as f:
            head, rest = f.read().split(self.begin)
        middle, tail = rest.split(self.end)
        return head, middle, tail

    def main(self, about):
        if sys.argv[1:] == ["--write"]:
            before, _, after = self.parts()
            with open(self.path, "w", encoding="utf-8") as out:
                out.write(before + self.begin + self.table() + self.end + after)
        elif not sys.argv[1:]:
            print(self.table(), end="")
        else:
            sys.exit(about)
