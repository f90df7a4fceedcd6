"""The operations in plain torch, for every device: functions of the operations' names, signatures and results."""
