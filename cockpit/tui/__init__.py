"""The screen. Everything it shows comes from cockpit.session; it decides nothing by itself."""
