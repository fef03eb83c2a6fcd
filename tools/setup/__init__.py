"""Makes a machine ready for a verb of the Makefile: ``tools/setup/run VERB [-- COMMAND ...]``.

Only the standard library is used here, since this runs before anything is installed.
"""
