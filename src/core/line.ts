/** One line that a person can read: no line ends or other control characters, and not only blanks. For regular expressions with `u`. */
export const linePattern = '^(?=.*\\S)[^\\p{Cc}\\u2028\\u2029]*$';
