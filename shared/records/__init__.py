"""Typed records of every file that one stage writes and the next one reads.

Import the module of the record that you need. Nothing is re-exported here: the settings of a run
must not depend on the records of claims, or a changed claim would retrain every run.
"""
