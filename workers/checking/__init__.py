"""The check stage: rules, the runtime's own words and trial runs, as one list of findings.

Importing this imports no runtime; ``whole`` does, and only a child imports that.
"""
