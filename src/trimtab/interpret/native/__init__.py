"""The rules that hold without anybody having written a script: one module per question."""
