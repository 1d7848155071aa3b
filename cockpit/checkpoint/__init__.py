"""WHAT the weights are: read from config.json and safetensors headers, never from names."""
