"""What the commands of the command line do; see [`span_marker_cli`] for what they take."""
