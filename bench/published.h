/* Figures from other hardware: context, never a yardstick. Others published them, except where the
 * source says that it is a measurement of this project. */
#ifndef PKV_PUBLISHED_H
#define PKV_PUBLISHED_H

struct published_figure {
    const char *what, *value, *hardware, *source;
};
/* Figure number idx, NULL past the end. */
const struct published_figure *published_figure(int idx);

#endif
