"""Why a server died or will not start: a table of symptoms, and the reader of the log that they are matched with."""
