"""``python -m cockpit`` is the same program as ``cockpit``."""

from cockpit.cli.main import entry

if __name__ == "__main__":
    entry()
