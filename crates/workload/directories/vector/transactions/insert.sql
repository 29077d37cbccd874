insert into item (id, embedding) values (:id, :embedding::vector);
