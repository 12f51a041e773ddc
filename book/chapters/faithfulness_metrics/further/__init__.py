"""Further experiments: prompts with a needle, ROAR, learned weights elsewhere, training with keys hidden."""
