"""The algebra of the store's keys: tokens to page keys, page keys to object keys and back, by SGLang release and layout."""
