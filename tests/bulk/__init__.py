"""Many repositories at once: real git repositories, real processes, a real cluster."""
