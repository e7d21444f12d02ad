"""Judge what the ranks read: verdict, reasons and causes; pure, nothing is run here."""
