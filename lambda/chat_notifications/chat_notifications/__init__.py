"""The function that forwards an environment's notifications to chat."""
