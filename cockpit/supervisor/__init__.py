"""The only place that spawns or signals servers."""
