// Lines of fields, separated by commas.
#pragma once

#include <stddef.h>

// The fields of a line: one allocation for the list, one for each field. The caller frees them.
char **split(const char *line, size_t *count);

// The line of these fields: one allocation, of its length + 1.
char *join(char *const *fields, size_t count);
