# cython: language_level=3, boundscheck=True, wraparound=False, nonecheck=True, initializedcheck=True
# cython: binding=False, auto_pickle=False
"""The record loop, the entries of LONG states, and the columns of the output.

Theory. Nothing here has semantics of its own: the engine's Python path defines them, and whatever has an unusual form
goes back to it (a value that is no plain ``int``, a yielded row that is no plain tuple). So a shortcut is taken only
where both paths certainly agree.

Memory. Every pointer belongs to an object that owns what it points to: memory views hold NumPy's and Arrow's buffers,
``_Memory`` holds its own. Nothing keeps a pointer between two calls, because the engine exchanges arrays when keys
come, also between two timers; a handle asks its ``LongColumns`` anew each time, and every index is checked. User code
may run at a call of the function, at an advance of its generator, and when an object is released; no pointer into
memory that can move is held across one of these.
"""

cimport cython
from cpython.list cimport PyList_GET_SIZE
from cpython.long cimport PyLong_AsSsize_t, PyLong_FromLongLong, PyLong_FromSsize_t
from cpython.number cimport PyNumber_AsSsize_t
from cpython.ref cimport Py_INCREF, PyObject, PyTypeObject
from cpython.tuple cimport PyTuple_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

cdef extern from "Python.h":
    bint PyLong_CheckExact(object)
    bint PyFloat_CheckExact(object)
    bint PyUnicode_CheckExact(object)
    bint PyTuple_CheckExact(object)
    bint PyList_CheckExact(object)
    bint PyGen_CheckExact(object)
    double PyFloat_AS_DOUBLE(object)
    long long PyLong_AsLongLongAndOverflow(object, int*) except? -1
    const char* PyUnicode_AsUTF8AndSize(object, Py_ssize_t*) except NULL
    bytes PyBytes_FromStringAndSize(const char*, Py_ssize_t)
    PyObject* PyTuple_GET_ITEM(object, Py_ssize_t)
    void PyTuple_SET_ITEM(object, Py_ssize_t, object)
    object PyType_GenericAlloc(PyTypeObject*, Py_ssize_t)
    void Py_XDECREF(PyObject*)

cdef extern from "structmember.h":
    """
    /* What a slot of a Python class is, by its descriptor; the same in all versions of CPython that are built for. */
    static Py_ssize_t records_slot_offset(PyObject* found, PyObject* owner) {
        PyMemberDescrObject* descriptor;
        if (Py_TYPE(found) != &PyMemberDescr_Type)
            return -1;
        descriptor = (PyMemberDescrObject*)found;
        if (descriptor->d_common.d_type != (PyTypeObject*)owner || descriptor->d_member->type != T_OBJECT_EX)
            return -1;
        return descriptor->d_member->offset;
    }
    /* Whether the only reference to a tuple is the one at hand, so that nobody can see it change. Not from 3.14 on: there a
       tuple keeps its hash, and a frame may use what it has not counted. */
    static int records_is_alone(PyObject* row) {
    #if PY_VERSION_HEX >= 0x030E0000 || defined(Py_GIL_DISABLED)
        return 0;
    #else
        return Py_REFCNT(row) == 1;
    #endif
    }
    /* Whether instances are tuples and nothing else: no dict, no weak references, no other constructor. */
    static int records_is_plain(PyObject* given) {
        PyTypeObject* kind = (PyTypeObject*)given;
        return PyType_Check(given) && PyType_FastSubclass(kind, Py_TPFLAGS_TUPLE_SUBCLASS) && kind->tp_new == PyTuple_Type.tp_new
            && kind->tp_init == PyTuple_Type.tp_init && kind->tp_alloc == PyType_GenericAlloc
            && kind->tp_basicsize == PyTuple_Type.tp_basicsize && kind->tp_itemsize == PyTuple_Type.tp_itemsize
            && kind->tp_dictoffset == 0 && kind->tp_weaklistoffset == 0 && kind->tp_iter == PyTuple_Type.tp_iter;
    }
    """
    Py_ssize_t records_slot_offset(object, object)
    bint records_is_alone(PyObject*)
    bint records_is_plain(object)


cdef inline bint as_long(object value, int64_t* into) except -1:
    """Whether the value is an ``int``, not a subclass of it, and fits."""
    cdef int overflow = 0
    if not PyLong_CheckExact(value):
        return False
    into[0] = PyLong_AsLongLongAndOverflow(value, &overflow)
    return overflow == 0


# --- where the operator stands

cdef Py_ssize_t slot_of(object owner, str name) except -1:
    if not isinstance(owner, type):
        raise TypeError(f"{owner!r} is no class")
    cdef Py_ssize_t offset = records_slot_offset(owner.__dict__[name], owner)
    if offset < 0:
        raise TypeError(f"{owner.__qualname__}.{name} is not a slot")
    return offset


@cython.final
cdef class Position:
    """The slots ``number`` and ``stamp`` of the engine's cursor, without the calls that attributes take."""
    cdef object cursor
    cdef Py_ssize_t number_at, stamp_at

    def __cinit__(self, object cursor not None, object cursor_class not None):
        if not isinstance(cursor, cursor_class):
            raise TypeError(f"{cursor!r} is no {cursor_class.__qualname__}")
        self.number_at = slot_of(cursor_class, "number")
        self.stamp_at = slot_of(cursor_class, "stamp")
        self.cursor = cursor

    cdef inline PyObject** slot(self, Py_ssize_t offset) except NULL:
        if self.cursor is None:  # the garbage collector has taken the cycle apart
            raise ReferenceError("the cursor is gone")
        return <PyObject**>(<char*><PyObject*>self.cursor + offset)

    cdef inline Py_ssize_t number(self) except -1:
        """The number of the current key."""
        cdef PyObject* held = self.slot(self.number_at)[0]
        cdef Py_ssize_t number
        if held is NULL:
            raise AttributeError("number")
        if PyLong_CheckExact(<object>held):
            number = PyLong_AsSsize_t(<object>held)
        else:
            number = PyNumber_AsSsize_t(<object>held, IndexError)
        if number < 0:
            raise IndexError(f"{number} is no number of a key")
        return number

    cdef inline int set(self, Py_ssize_t offset, object value) except -1:
        cdef PyObject** slot = self.slot(offset)
        cdef PyObject* old = slot[0]
        Py_INCREF(value)
        slot[0] = <PyObject*>value
        Py_XDECREF(old)
        return 0


# --- the entries of a state

@cython.final
cdef class LongColumns:
    """The arrays that the entries of a LONG state are in, by the numbers of their keys. As a sequence of ``int`` and
    None it is what the entries of the Python path are."""
    cdef int64_t[::1] values
    cdef uint8_t[::1] present
    cdef uint8_t[::1] changed
    cdef Py_ssize_t count

    def __cinit__(self):
        self.count = 0

    def __len__(self):
        return self.count

    def refresh(self, int64_t[::1] values not None, uint8_t[::1] present not None, uint8_t[::1] changed not None,
                Py_ssize_t count):
        """These are the arrays from now on, and so many of their places are in use."""
        if not 0 <= count <= min(values.shape[0], present.shape[0], changed.shape[0]):
            raise ValueError(f"{count} entries do not fit the arrays")
        self.values, self.present, self.changed, self.count = values, present, changed, count

    cdef inline int check(self, Py_ssize_t number) except -1:
        if not 0 <= number < self.count:
            raise IndexError(f"there is no entry {number}; there are {self.count}")
        return 0

    cdef inline object read(self, Py_ssize_t number):
        self.check(number)
        return PyLong_FromLongLong(self.values[number]) if self.present[number] else None

    cdef inline int write(self, Py_ssize_t number, int64_t value) except -1:
        self.check(number)
        self.values[number] = value
        self.present[number] = 1
        self.changed[number] = 1
        return 0

    cdef inline int erase(self, Py_ssize_t number) except -1:
        self.check(number)
        if self.present[number]:
            self.present[number] = 0
            self.changed[number] = 1
        return 0

    def __getitem__(self, Py_ssize_t number):
        return self.read(number)

    def __setitem__(self, Py_ssize_t number, value):
        cdef int64_t whole
        if value is None:
            self.erase(number)
        elif as_long(value, &whole):
            self.write(number, whole)
        else:
            raise TypeError(f"{value!r} is no stored LONG")


cdef class LongHandle:
    """What a handle of a LONG state does without a call of Python. The engine extends it by a handle in Python, whose
    methods ``_value``, ``_update`` and ``_clear`` do the same for everything that has no place here: no key, a
    namespace, a value of an unusual form."""
    cdef Position position
    cdef LongColumns columns

    def attach(self, Position position not None):
        """The current key is that of this position."""
        self.position = position

    def point(self, LongColumns columns):
        """Entries are these; None: wherever the handle in Python has them."""
        self.columns = columns

    def value(self):
        if self.columns is None:
            return (<object>self)._value()
        return self.columns.read(self.position.number())

    def update(self, value):
        cdef int64_t whole
        if self.columns is None or not as_long(value, &whole):
            (<object>self)._update(value)
        else:
            self.columns.write(self.position.number(), whole)

    def clear(self):
        if self.columns is None:
            (<object>self)._clear()
        else:
            self.columns.erase(self.position.number())


# --- the output

cdef enum Kind:
    LONG
    INT
    DOUBLE
    BOOL
    TEXT

KINDS = {"int64": LONG, "int32": INT, "double": DOUBLE, "bool": BOOL, "string": TEXT}
"""By the name of Arrow's type: the columns that can be built here."""

cdef enum:
    MOST_BYTES = 0x7FFFFFFF  # of text, because its offsets have 32 bits
    EXACT_BITS = 53  # a whole number of so many bits is the same as a double


@cython.final
cdef class _Memory:
    """Bytes that grow, and are never less than asked for."""
    cdef char* data
    cdef size_t size

    def __cinit__(self):
        self.data, self.size = NULL, 0

    def __dealloc__(self):
        free(self.data)

    cdef inline int need(self, size_t size) except -1:
        if size > self.size:
            self.grow(size)
        return 0

    cdef int grow(self, size_t size) except -1:
        cdef size_t room = max(size, 2 * self.size, <size_t>4096)
        cdef char* data = <char*>realloc(self.data, room)
        if data is NULL:
            raise MemoryError(f"{room} bytes for the output")
        self.data, self.size = data, room
        return 0

    cdef bytes copy(self, size_t size):
        if size > self.size:
            raise IndexError(f"{size} bytes of {self.size}")
        return PyBytes_FromStringAndSize(self.data, size)


@cython.final
cdef class _Column:
    """One column of the output, in the form that Arrow has it in memory."""
    cdef Kind kind
    cdef Py_ssize_t count
    cdef size_t used  # bytes of text
    cdef bint has_nulls
    cdef _Memory data, ends, valid

    def __cinit__(self, Kind kind):
        self.kind = kind
        self.data, self.ends, self.valid = _Memory(), _Memory(), _Memory()
        if kind == TEXT:
            self.ends.need(sizeof(int32_t))
            (<int32_t*>self.ends.data)[0] = 0

    cdef bint put(self, object value) except -1:
        """Whether the value has a place; if not, nothing has changed."""
        if value is None:
            return self.put_null()
        if self.kind == LONG:
            return self.put_long(value)
        if self.kind == TEXT:
            return self.put_text(value)
        return self.put_other(value)

    cdef inline bint put_long(self, object value) except -1:
        cdef int64_t whole
        if not as_long(value, &whole):
            return False
        self.data.need((self.count + 1) * sizeof(int64_t))
        (<int64_t*>self.data.data)[self.count] = whole
        return self.note(1)

    cdef bint put_text(self, object value) except -1:
        cdef Py_ssize_t size
        cdef const char* text
        if not PyUnicode_CheckExact(value):
            return False
        try:
            text = PyUnicode_AsUTF8AndSize(value, &size)
        except UnicodeEncodeError:  # half of a character
            return False
        if self.used + <size_t>size > MOST_BYTES:
            return False
        self.data.need(self.used + size + 1)
        self.ends.need((self.count + 2) * sizeof(int32_t))
        memcpy(self.data.data + self.used, text, size)
        self.used += size
        (<int32_t*>self.ends.data)[self.count + 1] = self.used
        return self.note(1)

    cdef bint put_other(self, object value) except -1:
        cdef int64_t whole
        cdef double number
        if self.kind == INT:
            if not as_long(value, &whole) or not -0x80000000LL <= whole <= 0x7FFFFFFFLL:
                return False
            self.data.need((self.count + 1) * sizeof(int32_t))
            (<int32_t*>self.data.data)[self.count] = <int32_t>whole
        elif self.kind == DOUBLE:
            if PyFloat_CheckExact(value):
                number = PyFloat_AS_DOUBLE(value)
            elif as_long(value, &whole) and -(1LL << EXACT_BITS) <= whole <= 1LL << EXACT_BITS:
                number = <double>whole
            else:
                return False
            self.data.need((self.count + 1) * sizeof(double))
            (<double*>self.data.data)[self.count] = number
        else:
            if value is not True and value is not False:
                return False
            self.data.need(self.count + 1)
            self.data.data[self.count] = value is True
        return self.note(1)

    cdef bint put_null(self) except -1:
        cdef size_t width = 8 if self.kind in (LONG, DOUBLE) else 4 if self.kind == INT else 1
        if not self.has_nulls:
            self.valid.need(self.count + 1)
            memset(self.valid.data, 1, self.count)
            self.has_nulls = True
        if self.kind == TEXT:
            self.ends.need((self.count + 2) * sizeof(int32_t))
            (<int32_t*>self.ends.data)[self.count + 1] = self.used
        else:
            self.data.need((self.count + 1) * width)
            memset(self.data.data + self.count * width, 0, width)
        return self.note(0)

    cdef inline bint note(self, char is_valid) except -1:
        """One more value."""
        if self.has_nulls:
            self.valid.need(self.count + 1)
            self.valid.data[self.count] = is_valid
        self.count += 1
        return True

    cdef int cut(self, Py_ssize_t count) except -1:
        """Forget the values from this one on."""
        if count > self.count:
            raise IndexError(f"{count} values of {self.count}")
        self.count = count
        if self.kind == TEXT:
            self.used = (<int32_t*>self.ends.data)[count]
        return 0

    cdef list buffers(self):
        """Arrow's buffers of this column."""
        cdef object valid = bits(self.valid, self.count) if self.has_nulls else None
        if self.kind == TEXT:
            ends = self.ends.copy((self.count + 1) * sizeof(int32_t))
            return [valid, ends, self.data.copy(self.used)]
        if self.kind == BOOL:
            return [valid, bits(self.data, self.count)]
        return [valid, self.data.copy(self.count * (sizeof(int32_t) if self.kind == INT else sizeof(int64_t)))]

    cdef size_t nbytes(self):
        return self.used if self.kind == TEXT else self.count * sizeof(int64_t)


cdef bytes bits(_Memory flags, Py_ssize_t count):
    """Bytes that are 0 or 1, eight in one."""
    cdef _Memory packed = _Memory()
    cdef Py_ssize_t place, size = (count + 7) // 8
    if <size_t>count > flags.size:
        raise IndexError(f"{count} flags of {flags.size}")
    packed.need(size + 1)
    memset(packed.data, 0, size)
    for place in range(count):
        packed.data[place >> 3] |= flags.data[place] << (place & 7)
    return packed.copy(size)


@cython.final
cdef class Output:
    """Yielded rows as columns, of the ``kinds`` given (values of ``KINDS``). Rows of ``row_class`` are taken like
    tuples, which they are."""
    cdef list columns
    cdef readonly Py_ssize_t count
    """How many rows there are."""
    cdef Py_ssize_t width
    cdef object row_class

    def __cinit__(self, kinds not None, object row_class not None):
        self.columns = [_Column(kind) for kind in kinds]
        self.width = len(self.columns)
        self.row_class = row_class if records_is_plain(row_class) else tuple
        if not self.width:
            raise ValueError("an output has at least one column")

    def put(self, row):
        """Whether the row has a place here. If not, nothing has changed: the Python path converts it, or refuses it."""
        return self.take(row)

    cdef bint take(self, object row) except -1:
        cdef Py_ssize_t place
        if not PyTuple_CheckExact(row) and type(row) is not self.row_class:
            return False
        if PyTuple_GET_SIZE(row) != self.width:
            return False
        for place in range(self.width):
            if not (<_Column>self.columns[place]).put(<object>PyTuple_GET_ITEM(row, place)):
                self.cut()
                return False
        self.count += 1
        return True

    cdef int cut(self) except -1:
        for column in self.columns:
            if (<_Column>column).count > self.count:
                (<_Column>column).cut(self.count)
        return 0

    @property
    def nbytes(self):
        """About how many bytes they take."""
        return sum([(<_Column>column).nbytes() for column in self.columns])

    def finish(self):
        """Arrow's buffers by column, of all rows since it was called last. Begins anew."""
        made = [(<_Column>column).buffers() for column in self.columns]
        self.columns = [_Column((<_Column>column).kind) for column in self.columns]
        self.count = 0
        return made


# --- the loop

@cython.final
cdef class Source:
    """A column of the rows: a list of objects, or an array of 64-bit numbers. ``first`` is the row that it begins with.
    None: there is no column, and each row has None."""
    cdef list objects
    cdef const int64_t[::1] longs
    cdef const double[::1] doubles
    cdef Kind kind
    cdef Py_ssize_t first, count

    def __cinit__(self, values, Py_ssize_t first=0):
        self.first = first
        if values is None:
            self.kind, self.count = BOOL, 0
            return
        self.count = len(values)
        if PyList_CheckExact(values):
            self.kind, self.objects = TEXT, values
        elif values.dtype.kind == "f":
            self.kind, self.doubles = DOUBLE, values
        else:
            self.kind, self.longs = LONG, values

    cdef inline object at(self, Py_ssize_t place):
        place -= self.first
        if self.kind == LONG:
            return PyLong_FromLongLong(self.longs[place])
        if self.kind == TEXT:
            return self.objects[place]
        if self.kind == DOUBLE:
            return self.doubles[place]
        return None


@cython.final
cdef class Loop:
    """Calls a function for each row. ``row`` is the one that was at hand last. ``copied`` makes what was yielded
    independent of what the function does with it afterwards, which items of the classes in ``plain`` are by themselves."""
    cdef Position position
    cdef object cursor, row_class, copied
    cdef set plain
    cdef list namespaced
    cdef bint is_plain
    cdef readonly object row

    def __cinit__(self, object cursor not None, object cursor_class not None, object row_class not None,
                  object copied not None, set plain not None):
        self.position = Position(cursor, cursor_class)
        self.cursor, self.row_class = cursor, row_class
        self.copied, self.plain = copied, plain
        self.namespaced = cursor.namespaced
        self.is_plain = records_is_plain(row_class)

    def run(self, process not None, Source numbers not None, Source stamps not None, list sources not None,
            Py_ssize_t start, Py_ssize_t stop, Output output):
        """Call ``process`` for the rows from ``start`` to ``stop``, whose values are those of ``sources``, with the
        number of the key and the event time set. What it yields goes to the output; from the first item on that has no
        place there, all go to the list that is returned."""
        cdef list rest = []
        cdef bint is_odd = output is None
        cdef Py_ssize_t at
        cdef object result
        cdef tuple columns = tuple(sources)
        for source in columns:
            if not isinstance(source, Source):
                raise TypeError(f"{source!r} is no Source")
        for at in range(start, stop):
            result = None
            self.position.set(self.position.number_at, numbers.at(at))
            self.position.set(self.position.stamp_at, stamps.at(at))
            self.next_row(columns, at)
            result = process(self.row, self.cursor)
            if result is not None:
                if PyGen_CheckExact(result) or PyList_CheckExact(result) or PyTuple_CheckExact(result):
                    for item in result:
                        if is_odd or not output.take(item):
                            is_odd = True
                            rest.append(self.kept(item))
                else:
                    is_odd = self.extend(result, rest, output, is_odd)
            if PyList_GET_SIZE(self.namespaced):
                self.cursor.reset_namespaces()
        self.row = None
        return rest

    cdef bint extend(self, object result, list rest, Output output, bint is_odd) except -1:
        """The same for anything else that can be iterated: as a list takes it."""
        cdef list items = []
        for item in result:
            items.append(self.kept(item))
        for item in items:
            if is_odd or not output.take(item):
                is_odd = True
                rest.append(item)
        return is_odd

    cdef inline object kept(self, object item):
        return item if type(item) in self.plain else self.copied(item)

    cdef int next_row(self, tuple columns, Py_ssize_t at) except -1:
        """Make ``row`` the one at this place. If nobody has kept the last one, it gets other values: a plain tuple has
        neither a dict nor weak references, so the count of its references says so."""
        cdef Py_ssize_t width = PyTuple_GET_SIZE(columns), place
        cdef object value
        cdef PyObject* old
        if not self.is_plain:
            self.row = self.row_class(tuple([(<Source>column).at(at) for column in columns]))
            return 0
        if self.row is None or not records_is_alone(<PyObject*>self.row) or PyTuple_GET_SIZE(self.row) != width:
            self.row = PyType_GenericAlloc(<PyTypeObject*><PyObject*>self.row_class, width)
        for place in range(width):
            value = (<Source><object>PyTuple_GET_ITEM(columns, place)).at(at)
            old = PyTuple_GET_ITEM(self.row, place)
            Py_INCREF(value)
            PyTuple_SET_ITEM(self.row, place, value)
            Py_XDECREF(old)
        return 0
