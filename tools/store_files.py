"""What can be seen in the files of a store's folder."""
import os


def contents(folder):
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                with open(os.path.join(place, name), "rb") as file:
                    yield name, file.read()
            except FileNotFoundError:  # it went meanwhile
                pass


def found(folder, canaries):
    """Which of them are in any file. `canaries`: what each is called -> pieces of it, of which one is enough."""
    return sorted({what for _, data in contents(folder) for what, some in canaries.items()
                   if any(one in data for one in some)})
