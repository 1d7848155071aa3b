"""Will it fit: how many tokens of KV cache vLLM makes of a pool, to the token."""
