"""What a repository says it needs: finds where it lists torch, and adds the runtime there."""
