"""Derived data sets: one module each, with a deterministic `make(source: PreparedData) -> Arrays`.

`shared.records.derived.DERIVED` names them with the data set that each is made of. The same source
gives the same bytes on every machine of one architecture; a random draw has its own seed.
"""
