"""``make wheels``: builds what is published, and proves each of it where nothing else of the project is."""
