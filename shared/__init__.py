"""The machinery of Renorm. It never imports `papers`; a paper is handed to it by name."""
