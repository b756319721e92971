#pragma once

// Arrays of values, as parameters of statements.

extern "C" {
#include "postgres.h"

#include "utils/array.h"
#include "utils/lsyscache.h"
}

namespace shortener {

template <typename T> T* allocate(int count) {
    return static_cast<T*>(palloc_extended(sizeof(T) * (count + 1), MCXT_ALLOC_HUGE));
}

inline Datum array_of(Datum* elements, int count, Oid type) {
    int16 length;
    bool by_value;
    char alignment;
    get_typlenbyvalalign(type, &length, &by_value, &alignment);
    int lower_bound = 1;
    return PointerGetDatum(
        construct_md_array(elements, nullptr, 1, &count, &lower_bound, type, length, by_value, alignment));
}

template <typename Element> Datum array_from(int count, Oid type, Element&& element) {
    Datum* const elements = allocate<Datum>(count);
    for (int i = 0; i < count; i++)
        elements[i] = element(i);
    return array_of(elements, count, type);
}

} // namespace shortener
