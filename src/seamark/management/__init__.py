"""Neptune's ``management``: only the names of its exceptions; there are no calls here yet."""
