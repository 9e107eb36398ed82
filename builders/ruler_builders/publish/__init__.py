"""Publishing: a verified folder becomes one commit and one tag on the Hub, or nothing does."""
