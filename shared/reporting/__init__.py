"""The report that people read: page, index, notebook and the table of the README.

Nothing here computes a verdict. The numbers come from the metrics table and from the judge's
file, and every sentence about them is put together from those.
"""
