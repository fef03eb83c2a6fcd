"""Tools for the developers of the project."""
