"""The process side of `trace`: starts COMMAND, watches its recording grow, samples the store's master."""
