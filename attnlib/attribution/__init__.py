"""What a prediction drew on: every answer to that question."""
