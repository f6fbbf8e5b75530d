"""One job through tens of thousands of epochs: nothing may grow but its state."""
