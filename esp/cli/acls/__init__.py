"""``esp acls``: rules of access, listed, added and removed."""
