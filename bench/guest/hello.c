/*
 * hello.c - the tiny static program that lat_proc executes: one line, which goes nowhere there.
 */
#include <unistd.h>

int main(void)
{
    static const char text[] = "Hello world\n";
    return write(1, text, sizeof(text) - 1) == 1000;
}
