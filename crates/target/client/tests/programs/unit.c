/* A second translation unit that includes the header. */
#include "allotrope.h"

void calls_of_another_unit(void);

void calls_of_another_unit(void)
{
    allotrope_window_close(allotrope_open("unit", 1, 0), 0);
}
