"""Where attention tells: every measure asked about models whose sources are known."""

from book.chapters.tells.where_attention_tells import WhereAttentionTells

__all__ = ["WhereAttentionTells"]
