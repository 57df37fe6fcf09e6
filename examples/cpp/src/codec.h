// Lines of fields, separated by commas.
#pragma once

#include <string>
#include <vector>

// One allocation: the line, which has its size from the start.
std::string encode(const std::vector<std::string> &fields);

// One allocation for the list, and one for each field that is longer than 15
// characters (shorter ones lie in the string itself).
std::vector<std::string> decode(const std::string &line);
