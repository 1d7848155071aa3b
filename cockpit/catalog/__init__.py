"""WHAT is wanted: slugs, the recipes that users write."""
