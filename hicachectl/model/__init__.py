"""What the spans say happened: engines, pages in the store, and the journey of each request."""
