"""Messages inside bytes fields, records and files."""
