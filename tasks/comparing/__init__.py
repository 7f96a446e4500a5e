"""Two artifacts measured side by side: what may be compared, how it is made, judged and signed."""
