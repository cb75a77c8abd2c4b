//! RESP2 and RESP3 requests and replies, inline commands.
