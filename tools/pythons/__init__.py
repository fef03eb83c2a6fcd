"""``make pythons``: the package and its tests on every Python that the machine has."""
