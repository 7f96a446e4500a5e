"""Plugin libraries on a node: the operator's folder, a job's own copies, and loading them.

Only a child ever loads one. Importing this imports no runtime.
"""
