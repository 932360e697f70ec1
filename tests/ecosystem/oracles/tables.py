"""The tables that ``kafka-transactions`` prints: a line of names and a line for each row, in columns that end with a tabulator."""


def parse_table(output: str, first_column: str) -> list[dict[str, str]]:
    """Return the rows of the table whose first column has a name.

    Raises:
        ValueError: there is no such table in the output.
    """
    rows = [[cell.strip() for cell in line.split("\t")] for line in output.splitlines()]
    heads = [number for number, row in enumerate(rows) if row[0] == first_column]
    if not heads:
        raise ValueError(f"no table that begins with {first_column}:\n{output}")
    names = rows[heads[0]]
    return [dict(zip(names, row, strict=False)) for row in rows[heads[0] + 1 :] if len(row) == len(names)]
